// Package cli is the command line: one file per verb, which turns flags into a package
// call and what comes back into lines or JSON.
//
// Main is a whole program, for a main of one's own that links further providers or
// extensions. Exit status: 0 done, 1 failed, 2 not understood. Errors are one line that
// begins with "rpcrdma: " and says what to do; a configuration file gets one for each thing that is
// wrong with it. Long work shows its progress on a terminal and none in a pipe. Verbs, flags and the
// fields of --json are stable: scripts depend on them.
//
// No protocol rule lives here. Imports: everything below; cobra and Prometheus stop here.
package cli
