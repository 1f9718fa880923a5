package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/test/unhex"
)

// TestJSON: the form as people see it.
func TestJSON(t *testing.T) {
	for _, tc := range []struct{ hex, want string }{
		{`3bbaeb74 00000001 00000080 00000000
		  00000001 0000006c 01020304 00001388 00000000 9c300010 00000000
		  00000001 00000000 00000000  00000000`,
			`{
  "rdma_xid": "0x3bbaeb74",
  "rdma_vers": 1,
  "rdma_credit": 128,
  "rdma_proc": "RDMA_MSG",
  "rdma_reads": [
    {
      "position": 108,
      "handle": "0x01020304",
      "length": 5000,
      "offset": "0x9c300010"
    }
  ],
  "rdma_writes": [
    []
  ],
  "rdma_reply": null
}`},
		{`00000001 00000002 00000020 00000001  00000001 00000000  00000000 00000000
		  00000001 00000001 0000cafe 00002000 00000000 00000000`,
			`{
  "rdma_xid": "0x00000001",
  "rdma_vers": 2,
  "rdma_credit": 32,
  "rdma_proc": "RDMA2_NOMSG",
  "rdma_direction": "REPLY",
  "rdma_inv_handle": "0x00000000",
  "rdma_reads": [],
  "rdma_writes": [],
  "rdma_reply": [
    {
      "handle": "0x0000cafe",
      "length": 8192,
      "offset": "0x0"
    }
  ]
}`},
		{"00000001 00000002 00000020 00000004 00000007 00000002 00010000",
			`{
  "rdma_xid": "0x00000001",
  "rdma_vers": 2,
  "rdma_credit": 32,
  "rdma_proc": "RDMA2_ERROR",
  "rdma_err": "RDMA2_ERR_WRITE_RESOURCE",
  "rdma_chunk_index": 2,
  "rdma_length_needed": 65536
}`},
		{"00000001 00000002 00000020 00000006 00000002  00000001 00000004 00001000  00000002 00000000  00000001 00000001",
			`{
  "rdma_xid": "0x00000001",
  "rdma_vers": 2,
  "rdma_credit": 32,
  "rdma_proc": "RDMA2_CONNPROP",
  "rdma_start": [
    {
      "rdma_which": 1,
      "rdma_data": "00001000"
    },
    {
      "rdma_which": 2,
      "rdma_data": ""
    }
  ],
  "rdma_nochg": [
    "0x00000001"
  ]
}`},
	} {
		var h, back Header
		if _, err := h.Parse(unhex.Octets(t, tc.hex), ProfileCel04); err != nil {
			t.Fatal(err)
		}
		got, err := json.MarshalIndent(&h, "", "  ")
		if err != nil || string(got) != tc.want {
			t.Errorf("%v\n%s", err, got)
		}
		if err := json.Unmarshal(got, &back); err != nil || !bytes.Equal(back.Append(nil), unhex.Octets(t, tc.hex)) {
			t.Errorf("%v: %x", err, back.Append(nil))
		}
	}
}

// TestJSONGolden: every golden header there and back.
func TestJSONGolden(t *testing.T) {
	for _, tc := range golden {
		text, err := json.Marshal(&tc.h)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		var h Header
		if err := json.Unmarshal(text, &h); err != nil || !bytes.Equal(h.Append(nil), unhex.Octets(t, tc.hex)) {
			t.Errorf("%s: %v\n%s", tc.name, err, text)
		}
	}
}

// TestJSONByHand: what a person may write.
func TestJSONByHand(t *testing.T) {
	const want = "00000011 00000001 00000002 00000000 00000000 00000000 00000000"
	for _, text := range []string{
		`{"rdma_xid": 17, "rdma_vers": 1, "rdma_credit": 2, "rdma_proc": "RDMA_MSG"}`,
		`{"rdma_xid": "17", "rdma_vers": 1, "rdma_credit": 2, "rdma_proc": "MSG", "rdma_reads": []}`,
		`{"rdma_xid": "0x11", "rdma_vers": 1, "rdma_credit": 2, "rdma_proc": 0, "rdma_reply": null}`,
	} {
		var h Header
		if err := json.Unmarshal([]byte(text), &h); err != nil || !bytes.Equal(h.Append(nil), unhex.Octets(t, want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, tc := range []struct{ text, says string }{
		{`{"rdma_xid": 1, "rdma_vers": 1, "rdma_credit": 1, "rdma_proc": "RDMA_MESSAGE"}`, "RDMA_MESSAGE"},
		{`{"rdma_xid": 1, "rdma_vers": 1, "rdma_credit": 1, "rdma_proc": "RDMA_MSG", "rdma_repyl": []}`, "rdma_repyl"},
		{`{"rdma_xid": 1, "rdma_vers": 1, "rdma_credit": 1, "rdma_proc": "RDMA_MSG", "rdma_direction": "CALL"}`, "rdma_direction"},
		{`{"rdma_xid": 1, "rdma_vers": 3, "rdma_credit": 1, "rdma_proc": "RDMA_MSG"}`, "version 3"},
		{`{"rdma_xid": 1, "rdma_vers": 2, "rdma_credit": 1, "rdma_proc": "RDMA2_DONE"}`, "DONE"},
		{`{"rdma_xid": 1, "rdma_vers": 1, "rdma_credit": 1, "rdma_proc": "RDMA_NOMSG"}`, "without a chunk"},
		{`{"rdma_xid": 1, "rdma_vers": 1, "rdma_credit": 1, "rdma_proc": "RDMA_ERROR"}`, "rdma_err"},
		{`{"rdma_xid": 1, "rdma_vers": 2, "rdma_credit": 1, "rdma_proc": "RDMA2_ERROR", "rdma_err": "ERR_CHUNK"}`, "ERR_CHUNK"},
		{`{"rdma_xid": 1, "rdma_vers": 2, "rdma_credit": 1, "rdma_proc": "RDMA2_ERROR", "rdma_err": "RDMA2_ERR_SYSTEM", "rdma_max_chunks": 1}`, "rdma_max_chunks"},
		{`{"rdma_xid": 1, "rdma_vers": 2, "rdma_credit": 1, "rdma_proc": "RDMA2_MSG", "rdma_direction": "UP"}`, "UP"},
		{`{"rdma_xid": 4294967296, "rdma_vers": 1, "rdma_credit": 1, "rdma_proc": "RDMA_MSG"}`, "32 bits"},
		{`{"rdma_xid": 1, "rdma_vers": 1, "rdma_credit": 1, "rdma_proc": "RDMA_MSG", "rdma_reads": [{"position": 3}]}`, "multiple of four"},
		{`[]`, ""},
	} {
		var h Header
		if err := json.Unmarshal([]byte(tc.text), &h); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", tc.text, err)
		}
	}
}
