// Package config reads the configuration file: HCL in, plain structs out.
//
//	schema.go  what a file can say, and what is in force where it says nothing
//	load.go    which file, and reading it
//	block.go   a block's attributes, each with what is wanted of it
//	errors.go  what is wrong with a file, with places
//
// A file is right as a whole or nothing of it is used. Every problem is found in one go, and says where it is and what was
// expected. What a name stands for (whether an extension exists, whether a plugin has the digest that is
// written down) is not known here: package extensions finds out when it loads.
//
// No network, no plugin, no flag of the command line. HCL stops here. Imports: extensions, for its Spec.
package config
