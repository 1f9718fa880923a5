package main

import (
	"slices"
	"testing"
)

// TestRequester answers our client.
func TestRequester(t *testing.T) {
	runScripts(t, true, slices.Concat(requesterV1(), requesterChunks(), requesterV2(), backwardClient()))
}
