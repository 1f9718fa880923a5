package rpcmsg

import (
	"fmt"
	"strings"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Bounds of authsys_parms (RFC 5531 Appendix A).
const (
	MaxMachine = 255
	MaxGIDs    = 16
)

// Sys is the body of an AUTH_SYS credential (RFC 5531 Appendix A).
type Sys struct {
	Stamp    uint32
	Machine  string
	UID, GID uint32
	GIDs     []uint32
}

// Append appends the body. Bounds are checked: a fault sticks in w.
func (s *Sys) Append(w *xdr.Writer) {
	if len(s.Machine) > MaxMachine || len(s.GIDs) > MaxGIDs {
		w.Fail(fmt.Errorf("rpcmsg: AUTH_SYS with a name of %d bytes and %d groups: %w",
			len(s.Machine), len(s.GIDs), xdr.ErrBounds))
		return
	}
	w.Uint32(s.Stamp)
	w.String(s.Machine)
	w.Uint32(s.UID)
	w.Uint32(s.GID)
	w.Uint32(uint32(len(s.GIDs)))
	for _, g := range s.GIDs {
		w.Uint32(g)
	}
}

// Parse reads a body, the whole of it, into s; it reuses s.GIDs. s refers to nothing of body.
func (s *Sys) Parse(body []byte) error {
	err := s.ParseView(body)
	s.Machine = strings.Clone(s.Machine)
	return err
}

// ParseView is Parse without the copy of the name: s.Machine is a view, which is valid as long as body.
func (s *Sys) ParseView(body []byte) error {
	var r xdr.Reader
	r.Reset(body, nil)
	s.Stamp = r.Uint32()
	s.Machine = r.StringView(MaxMachine)
	s.UID = r.Uint32()
	s.GID = r.Uint32()
	s.GIDs = s.GIDs[:0]
	for n := r.Count(MaxGIDs, 4); n > 0; n-- {
		s.GIDs = append(s.GIDs, r.Uint32())
	}
	return r.Done()
}

// Auth is the credential of s: it is encoded once and may be used in any number of calls.
func (s *Sys) Auth() (Auth, error) {
	var w xdr.Writer
	s.Append(&w)
	return Auth{Flavor: AuthSys, Body: w.Bytes()}, w.Err()
}

// Plain is a ClientAuth whose credential does not change and is believed as it is: AUTH_SYS, or
// anything opaque. The zero value is AUTH_NONE.
type Plain struct{ Credential Auth }

// NewSys is the ClientAuth of s.
func NewSys(s *Sys) (*Plain, error) {
	a, err := s.Auth()
	if err != nil {
		return nil, err
	}
	return &Plain{a}, nil
}

func (p *Plain) Cred(h *CallHeader) error {
	h.Cred = p.Credential
	return nil
}

func (*Plain) Verf(*CallHeader, []byte) error { return nil }

// Check accepts any verifier: the server's may be AUTH_NONE, or AUTH_SHORT, which offers
// a shorthand that need not be used (RFC 5531 §10, Appendix A).
func (*Plain) Check(*CallHeader, *ReplyHeader) error { return nil }

func (*Plain) Protects() bool { return false }

func (*Plain) Wrap(_ *CallHeader, dst, args []byte) ([]byte, error) { return append(dst, args...), nil }

func (*Plain) Unwrap(_ *CallHeader, dst, results []byte) ([]byte, error) {
	return append(dst, results...), nil
}

var _ ClientAuth = (*Plain)(nil)

// PlainServer is the ServerAuth of AUTH_NONE, whose identity is nil, and of AUTH_SYS, whose
// identity is a *Sys. It takes the caller's word for it, which is all that these flavors have. A
// server that must not allocate calls Sys.ParseView itself.
type PlainServer Flavor

func (p PlainServer) Flavor() Flavor { return Flavor(p) }

// Accept refuses another flavor, and a body of AUTH_SYS that is no authsys_parms. The body
// of AUTH_NONE is not looked at: RFC 5531 §10.1 only recommends that it be empty.
func (p PlainServer) Accept(h *CallHeader, _ []byte) (any, error) {
	switch {
	case h.Cred.Flavor != Flavor(p):
		return nil, &AuthError{AuthRejectedCred}
	case h.Cred.Flavor == AuthSys:
		s := new(Sys)
		if s.Parse(h.Cred.Body) != nil {
			return nil, &AuthError{AuthBadCred}
		}
		return s, nil
	}
	return nil, nil
}

func (PlainServer) Verf(*CallHeader, any) (Auth, error) { return Auth{}, nil }

func (PlainServer) Protects(any) bool { return false }

func (PlainServer) Unwrap(_ *CallHeader, _ any, dst, args []byte) ([]byte, error) {
	return append(dst, args...), nil
}

func (PlainServer) Wrap(_ *CallHeader, _ any, dst, results []byte) ([]byte, error) {
	return append(dst, results...), nil
}

var _ ServerAuth = PlainServer(AuthNone)
