// Package extensionpb is the protocol between a program and an extension in another process: messages generated
// from extension.proto, which documents them, and their translation from and to core/ext (convert.go).
//
// Both ends use it, packages host and sdk; authors of extensions do not.
// Imports: core/ext.
package extensionpb
