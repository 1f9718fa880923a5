// Package obs says what happened: a fixed event struct passed by value, and the
// recorder that takes it. Engine, rpc and providers emit; logs, traces, metrics,
// transcripts and tests consume. A nil Recorder is off and costs one comparison.
//
// Nothing that formats, stores or exports enters here. Imports: reflect and time only.
package obs
