// Package devicekeys is a provider whose domains say that a device makes their keys (verbs.KeysDevice): the loopback provider,
// with notes of which peers each domain has served. Its tests show that peers get a protection domain each.
//
// Imports: core/verbs, core/fair, providers/loopback, the standard library.
package devicekeys
