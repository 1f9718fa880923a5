package rpcmsg

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Flavor is an auth_flavor (RFC 5531 §8.2 and IANA's registry).
type Flavor uint32

const (
	AuthNone   Flavor = 0
	AuthSys    Flavor = 1
	AuthShort  Flavor = 2
	AuthDH     Flavor = 3
	AuthRPCGSS Flavor = 6 // RPCSEC_GSS, RFC 2203
	AuthTLS    Flavor = 7 // RFC 9289
)

// MaxAuthBody bounds the body of a credential or verifier (RFC 5531 §8.2).
const MaxAuthBody = 400

// Auth is an opaque_auth: a credential or a verifier. The zero value is AUTH_NONE. The Body of a parsed one is a view, as of
// xdr.Reader: valid as long as the message, in a handler until it returns. Clone makes one that may be kept.
type Auth struct {
	Flavor Flavor
	Body   []byte
}

// Append appends a; a body above MaxAuthBody is a fault of w.
func (a *Auth) Append(w *xdr.Writer) {
	if len(a.Body) > MaxAuthBody {
		w.Fail(fmt.Errorf("rpcmsg: %v of %d bytes: %w", a.Flavor, len(a.Body), xdr.ErrBounds))
		return
	}
	w.Uint32(uint32(a.Flavor))
	w.Opaque(a.Body)
}

// Parse reads an opaque_auth; faults stick in r.
func (a *Auth) Parse(r *xdr.Reader) {
	a.Flavor = Flavor(r.Uint32())
	a.Body = r.OpaqueView(MaxAuthBody)
}

// Clone is a copy of a whose Body is its own.
func (a *Auth) Clone() Auth { return Auth{Flavor: a.Flavor, Body: bytes.Clone(a.Body)} }

// Len is the number of bytes Append appends.
func (a *Auth) Len() int { return 8 + len(a.Body) + (-len(a.Body) & 3) }

func (f Flavor) String() string {
	switch f {
	case AuthNone:
		return "AUTH_NONE"
	case AuthSys:
		return "AUTH_SYS"
	case AuthShort:
		return "AUTH_SHORT"
	case AuthDH:
		return "AUTH_DH"
	case AuthRPCGSS:
		return "RPCSEC_GSS"
	case AuthTLS:
		return "AUTH_TLS"
	}
	return fmt.Sprintf("flavor %d", uint32(f))
}

// Protects tells whether a credential says that arguments and results are wrapped: RPCSEC_GSS with integrity
// or privacy (RFC 2203 §5.3.1). One that cannot be read is taken for one that does.
func (a *Auth) Protects() bool {
	if a.Flavor != AuthRPCGSS {
		return false
	}
	var r xdr.Reader
	r.Reset(a.Body, nil)
	version, proc, _, service := r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32()
	if r.Err() != nil || version < 1 || version > 2 { // 2: RFC 5403
		return true
	}
	const (
		data      = 0 // other procedures are the mechanism's own
		none      = 1
		channelOK = 4 // protected by the channel: arguments go as they are (RFC 5403 §3)
	)
	return proc == data && service != none && service != channelOK
}

// ErrDiscard, from ServerAuth.Accept, drops a call without an answer: one that was replayed (RFC 2203 §5.3.3.1).
var ErrDiscard = errors.New("rpcmsg: call discarded")

// ClientAuth is a mechanism at the caller. A call is made in this order: Cred, the header up to
// and with the credential is encoded, Verf, the arguments are encoded, Wrap; a reply: its header
// is parsed, Check, Unwrap, its results are decoded. AppendCall does the first part.
//
// Methods may be called from several goroutines; those about one call are called one after the other. Of a message that
// came they get views, which are valid until they return: signed, the Bodies of reply, results.
type ClientAuth interface {
	// Cred fills h.Cred; its body is not changed until the call is encoded.
	Cred(h *CallHeader) error
	// Verf fills h.Verf. signed is the call from its XID to the end of the credential: what a
	// mechanism computes its verifier over (RFC 2203 §5.3.1).
	Verf(h *CallHeader, signed []byte) error
	// Check verifies the verifier of an accepted reply to h.
	Check(h *CallHeader, reply *ReplyHeader) error
	// Protects tells whether arguments and results are wrapped. Wrapped items are not eligible
	// for direct data placement: they are not in the stream as the binding knows them.
	Protects() bool
	// Wrap appends to dst the protected form of arguments, Unwrap that of results undone.
	// They are called only if Protects.
	Wrap(h *CallHeader, dst, args []byte) ([]byte, error)
	Unwrap(h *CallHeader, dst, results []byte) ([]byte, error)
}

// ServerAuth is a mechanism at the server, for the calls of one flavor. Of a message that came its methods get views, which
// are valid until they return: signed, args, the Bodies of h. An identity that holds something of them has a copy: it may be
// kept for minutes, by the duplicate request cache.
type ServerAuth interface {
	Flavor() Flavor
	// Accept verifies credential and verifier of h; signed is as in ClientAuth. The identity is the
	// mechanism's, such as *Sys; a refusal is an *AuthError and is sent to the caller, ErrDiscard drops the call. If
	// identities are comparable, those of one caller are to be equal: the duplicate request cache tells callers apart by
	// them, by the credential's body otherwise.
	Accept(h *CallHeader, signed []byte) (identity any, err error)
	// Verf makes the verifier of the reply to h.
	Verf(h *CallHeader, identity any) (Auth, error)
	// Protects, Unwrap and Wrap are those of ClientAuth, the other way round.
	Protects(identity any) bool
	Unwrap(h *CallHeader, identity any, dst, args []byte) ([]byte, error)
	Wrap(h *CallHeader, identity any, dst, results []byte) ([]byte, error)
}

// Controller is implemented by a ServerAuth with calls of its own, of whatever procedure, such as those that make and
// destroy a context of RPCSEC_GSS (RFC 2203 §5.2). Accept has passed them.
type Controller interface {
	// Controls tells whether the call is one of them.
	Controls(h *CallHeader) bool
	// Control answers it: results is XDR.
	Control(h *CallHeader, identity any, args []byte) (results []byte, err error)
}

// AppendCall appends h with the credential and verifier of a; nil is AUTH_NONE. It fills
// h.Cred and h.Verf.
func AppendCall(w *xdr.Writer, h *CallHeader, a ClientAuth) error {
	h.Cred, h.Verf = Auth{}, Auth{}
	if a == nil {
		h.Append(w)
		return w.Err()
	}
	if err := a.Cred(h); err != nil {
		return err
	}
	at := len(w.Bytes())
	h.appendToCred(w)
	if w.Err() != nil {
		return w.Err()
	}
	if err := a.Verf(h, w.Bytes()[at:]); err != nil {
		return err
	}
	h.Verf.Append(w)
	return w.Err()
}
