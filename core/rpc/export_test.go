package rpc

import "github.com/rpcrdma/rpcrdma/core/engine"

// Endpoint is the client's, nil before its first connection; of several, any.
func (c *Client) Endpoint() *engine.Endpoint {
	c.rdma.mu.Lock()
	defer c.rdma.mu.Unlock()
	for _, h := range c.rdma.common {
		return h.at.ep
	}
	return nil
}

// Endpoint is the listener's, nil for tcp.
func (l *Listener) Endpoint() *engine.Endpoint {
	if on, ok := l.on.(*rdmaListener); ok {
		return on.ep
	}
	return nil
}

// Replies is how many calls the duplicate request cache knows, and its bytes.
func (s *Server) Replies() (calls, bytes int) {
	c := s.replies
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls), c.bytes
}

// FirstOf dials the addresses of a name.
var FirstOf = firstOf
