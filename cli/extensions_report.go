package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/props"
)

// extensionReport is an extension as list and verify print it.
type extensionReport struct {
	Name       string            `json:"name"`
	Path       string            `json:"path,omitempty"`   // a plugin's; "": compiled in
	SHA256     string            `json:"sha256,omitempty"` // a plugin's
	Configured bool              `json:"configured"`       // it is loaded by verbs that connect or listen
	Error      string            `json:"error,omitempty"`  // why it cannot be; then nothing else is known
	Version    string            `json:"version,omitempty"`
	Class      string            `json:"class,omitempty"`
	Document   string            `json:"document,omitempty"` // that assigns its ids
	Carrier    bool              `json:"carrier,omitempty"`
	Gate       bool              `json:"gate,omitempty"`
	Needs      []string          `json:"needs,omitempty"`
	Operations []operationReport `json:"operations,omitempty"`
	Properties []propertyReport  `json:"properties,omitempty"`
}

type operationReport struct {
	Name    string `json:"name"`
	Type    uint32 `json:"opttype,omitempty"`
	Proc    uint32 `json:"rdma_proc,omitempty"`
	From    string `json:"from"`
	Answer  string `json:"answer,omitempty"`
	Payload string `json:"payload"`
}

type propertyReport struct {
	ID      uint32 `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Default string `json:"default"`
	Mutable bool   `json:"mutable"`
}

// declared fills in what the extension says of itself.
func (r *extensionReport) declared(d *ext.Declaration) {
	r.Version, r.Class, r.Document, r.Carrier, r.Gate, r.Needs = d.Version, d.Class.String(), d.Document, d.Carrier, d.Gate, d.Needs
	for _, op := range d.Ops {
		r.Operations = append(r.Operations, operationReport{op.Name, op.Type, op.Proc, senderText(op.From), op.Answer, payloadText(op.Payload)})
	}
	for _, p := range d.Props {
		r.Properties = append(r.Properties, propertyReport{p.ID, p.Name, p.Type.String(), props.FormatValue(p, p.Default), p.Mutable})
	}
}

func senderText(s ext.Sender) string {
	switch s {
	case ext.Client:
		return "client"
	case ext.Server:
		return "server"
	}
	return "either"
}

func payloadText(p ext.PayloadRule) string {
	switch p {
	case ext.Wraps:
		return "an RPC message"
	case ext.Part:
		return "part of an RPC message"
	}
	return "none"
}

func (r *extensionReport) where() string {
	if r.Path == "" {
		return "compiled in"
	}
	return r.Path
}

// printExtensions is a line for each, or with verbose a block.
func printExtensions(w io.Writer, all []extensionReport, verbose bool) error {
	if verbose {
		for i := range all {
			all[i].print(w)
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tVERSION\tCLASS\tLOADED\tWHERE\tOPERATIONS\tPROPERTIES")
	for i := range all {
		r := &all[i]
		loaded := "no"
		if r.Configured {
			loaded = "yes"
		}
		if r.Error != "" {
			fmt.Fprintf(t, "%s\t-\t-\tno\t%s\t-\t%s\n", r.Name, r.where(), r.Error)
			continue
		}
		var ops, properties []string
		for _, op := range r.Operations {
			ops = append(ops, op.ids())
		}
		for _, p := range r.Properties {
			properties = append(properties, fmt.Sprintf("%s %d", p.Name, p.ID))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Version, r.Class, loaded, r.where(), listText(ops), listText(properties))
	}
	return t.Flush()
}

func listText(s []string) string {
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(s, ", ")
}

// ids is an operation's name and numbers.
func (o operationReport) ids() string {
	switch {
	case o.Proc == 0:
		return fmt.Sprintf("%s %d", o.Name, o.Type)
	case o.Type == 0:
		return fmt.Sprintf("%s proc %d", o.Name, o.Proc)
	}
	return fmt.Sprintf("%s proc %d or %d", o.Name, o.Proc, o.Type)
}

func (r *extensionReport) print(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "    %-12s%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(w, r.Name)
	line("where", "%s", r.where())
	if r.SHA256 != "" {
		line("sha256", "%s", r.SHA256)
	}
	if r.Error != "" {
		line("error", "%s", r.Error)
		return
	}
	line("version", "%s", r.Version)
	line("class", "%s", r.Class)
	if !r.Configured {
		line("loaded", "no: the configuration does not name it")
	}
	if r.Document != "" {
		line("document", "%s", r.Document)
	}
	if len(r.Needs) > 0 {
		line("needs", "%s", strings.Join(r.Needs, ", "))
	}
	if r.Carrier {
		line("carrier", "it exchanges the properties of all extensions")
	}
	if r.Gate {
		line("gate", "no RPC but NULL before it has opened a connection")
	}
	for _, o := range r.Operations {
		more := ""
		if o.Answer != "" {
			more = "; answered by " + o.Answer
		}
		if o.Payload != payloadText(ext.NoPayload) {
			more += "; carries " + o.Payload
		}
		line("operation", "%s; sent by %s%s", o.ids(), o.From, more)
	}
	for _, p := range r.Properties {
		fixed := ""
		if p.Mutable {
			fixed = ", may change"
		}
		line("property", "%s %d; %s, default %s%s", p.Name, p.ID, p.Type, p.Default, fixed)
	}
}
