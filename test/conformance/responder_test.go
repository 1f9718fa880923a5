package main

import (
	"slices"
	"testing"
)

// TestResponder sends to our server.
func TestResponder(t *testing.T) {
	runScripts(t, false, toResponder())
}

func toResponder() []script {
	return slices.Concat(responderV1(), responderChunks(), responderV2(), backwardServer())
}
