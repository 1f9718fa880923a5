// Package host runs extensions in processes of their own, over hashicorp/go-plugin with gRPC. To the engine a Plugin is an
// ext.Extension like any other.
//
// The process. The executable is opened once: it must be a regular file that only root and the user we run as can change,
// its SHA-256 is compared, and the same open file is executed, so what happens to its name meanwhile does not matter. The
// kernel must be able to execute it by itself: a script cannot be a plugin. The process leads a group of its own, gets an environment of
// PATH and go-plugin's variables, /dev/null as its input, and dies with us. Its socket lies in a folder of our user's alone,
// which is gone when it has come up, and both ends authenticate each other by certificates made for this one process. What it writes to standard
// error becomes log lines, 20 a second with bursts of 100, at most 1 KiB each; the last four are kept for errors.
//
// The stream. One bidirectional gRPC stream carries all connections (extension.proto): the engine's calls become events, which the
// session queues and forgets; commands come back. Nothing in the engine ever waits for it. A connection has at most
// Limits.Queue events ahead of the plugin and 256 calls open; all connections together have 16 MiB. What exceeds that is
// treated as late (D-38). A plugin that sends more than 20,000 commands a second is read no faster. What it sends is checked:
// unknown connections, operations, properties, tokens, verdicts and lengths are counted and ignored, 32 of them end it.
//
// Its life. The process's exit, the end of its stream and two unanswered pings (every 5 s) end a process: its
// connections go on without it, every open question gets its default, what it has attached ends, and a
// connection that it gates and has not opened fails. It is started again after 100 ms, then 200 ms, … 10 s, always as a new go-plugin client and a
// new command (one that has run once cannot be started again). File and declaration must be what they were. Five failures within a
// minute, nonsense or another file quarantine it until the program is restarted.
//
// go-plugin's own runner is not used (runner.go says why), nor its broker, its SecureConfig, its log parser and its reattaching.
//
// Files: plugin.go the plugin and its supervisor; process.go one process and its stream; rundir.go the folder of its socket; session.go what the engine
// calls; command.go what the plugin wants; file.go the executable; runner.go the child process; lines.go what it writes; bucket.go
// rates.
//
// Linux only. Imports: core/ext, extensions/sdk.
package host
