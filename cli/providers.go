package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

type providerReport struct {
	Name    string         `json:"name"`
	Usable  bool           `json:"usable"`
	Why     string         `json:"why,omitempty"` // not usable
	Devices []deviceReport `json:"devices,omitempty"`
	Options []optionReport `json:"options,omitempty"`
}

type deviceReport struct {
	Name             string   `json:"name"`
	Addresses        []string `json:"addresses"`
	Note             string   `json:"note,omitempty"`
	MaxReads         int      `json:"max_reads"`
	MaxSegments      int      `json:"max_segments"`
	MaxReadSegments  int      `json:"max_read_segments"`
	Queue            int      `json:"queue"`
	MaxMessage       int      `json:"max_message"`
	PrivateDial      int      `json:"private_dial"`
	PrivateAccept    int      `json:"private_accept"`
	PrivateReject    int      `json:"private_reject"`
	MTU              int      `json:"mtu"`
	Keys             string   `json:"keys"`
	Detach           bool     `json:"detach"`
	RemoteInvalidate bool     `json:"remote_invalidate"`
	SettleMS         int64    `json:"settle_ms"`
}

type optionReport struct {
	Key     string `json:"key"`
	Default string `json:"default"`
	Help    string `json:"help"`
}

func newProviders() *cobra.Command {
	var verbose, asJSON bool
	cmd := &cobra.Command{
		Use:   "providers",
		Short: "which fabrics can run here, their limits, and why not",
		Args:  noArgs,
		RunE: work(func(cmd *cobra.Command, _ []string) error {
			reports := probeAll(cmd.Context())
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), reports)
			}
			if len(reports) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "this program links no provider: addresses can be tcp:// only")
				return err
			}
			for _, r := range reports {
				r.print(cmd.OutOrStdout(), verbose)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "devices, limits and options")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func probeAll(ctx context.Context) []providerReport {
	reports := []providerReport{}
	for _, name := range verbs.Schemes() {
		p, ok := verbs.Lookup(name)
		if !ok {
			continue
		}
		r := providerReport{Name: name}
		probe, cancel := context.WithTimeout(ctx, 5*time.Second)
		info, err := p.Probe(probe)
		cancel()
		if err != nil {
			r.Why = oneLine(err)
		} else {
			r.Usable = true
		}
		for _, d := range info.Devices {
			r.Devices = append(r.Devices, reportDevice(d))
		}
		for _, o := range info.Options {
			r.Options = append(r.Options, optionReport{o.Key, o.Default, o.Help})
		}
		slices.SortFunc(r.Options, func(a, b optionReport) int { return strings.Compare(a.Key, b.Key) })
		reports = append(reports, r)
	}
	return reports
}

func reportDevice(d verbs.Device) deviceReport {
	c := d.Caps
	r := deviceReport{Name: d.Name, Addresses: []string{}, Note: d.Note, MaxReads: c.MaxReads, MaxSegments: c.MaxSegs, MaxReadSegments: c.MaxReadSegs, Queue: c.Queue,
		MaxMessage: c.MaxMessage, PrivateDial: c.PrivateDial, PrivateAccept: c.PrivateAccept, PrivateReject: c.PrivateReject, MTU: c.MTU, Keys: "random", Detach: c.Detach,
		RemoteInvalidate: c.RemoteInvalidate, SettleMS: c.Settle.Milliseconds()}
	if c.Keys == verbs.KeysDevice {
		r.Keys = "device"
	}
	for _, a := range d.Addrs {
		r.Addresses = append(r.Addresses, a.String())
	}
	return r
}

// print is one line, or with verbose a block in the manner of ibv_devinfo.
func (r providerReport) print(w io.Writer, verbose bool) {
	state := "usable"
	if !r.Usable {
		state = "not usable: " + r.Why
	}
	fmt.Fprintf(w, "%-10s %s\n", r.Name, state)
	if !verbose {
		return
	}
	for _, d := range r.Devices {
		name := d.Name
		if name == "" {
			name = "(default)"
		}
		fmt.Fprintf(w, "    device:             %s\n", name)
		if d.Note != "" {
			fmt.Fprintf(w, "        note:           %s\n", d.Note)
		}
		if len(d.Addresses) > 0 {
			fmt.Fprintf(w, "        addresses:      %s\n", strings.Join(d.Addresses, " "))
		}
		for _, f := range []struct {
			name  string
			value any
		}{
			{"reads in flight", d.MaxReads}, {"segments", d.MaxSegments}, {"read segments", d.MaxReadSegments}, {"queue", d.Queue}, {"largest message", d.MaxMessage},
			{"private data", fmt.Sprintf("%d dial, %d accept, %d reject", d.PrivateDial, d.PrivateAccept, d.PrivateReject)}, {"frame payload", d.MTU}, {"keys", d.Keys}, {"detach", d.Detach},
			{"remote inval", d.RemoteInvalidate}, {"settle ms", d.SettleMS},
		} {
			fmt.Fprintf(w, "        %-16s%v\n", f.name+":", f.value)
		}
	}
	for _, o := range r.Options {
		fmt.Fprintf(w, "    option:             %s=%s\n        %s\n", o.Key, o.Default, o.Help)
	}
}
