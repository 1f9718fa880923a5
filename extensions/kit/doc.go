// Package kit writes the beginning of an extension for its author (rpcrdma extensions new): a module with a plugin that
// works, its test and what to do with them. It has a property and an operation, with ids from the experimental range.
//
// Its text is in the folder template. It may not need more than core/ext and extensions/sdk.
// Imports: the standard library.
package kit
