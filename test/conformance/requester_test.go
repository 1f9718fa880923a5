package main

import (
	"slices"
	"testing"
)

// TestRequester answers our client.
func TestRequester(t *testing.T) {
	runScripts(t, true, toRequester())
}

func toRequester() []script {
	return slices.Concat(requesterV1(), requesterChunks(), requesterV2(), backwardClient())
}
