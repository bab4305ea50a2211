// Package config reads the configuration file, checks it and resolves it into
// what the rest of the program uses.
//
// A file goes through five steps, each in its own file:
//
//	yaml.go     bytes to a tree of nodes, each with its line; aliases copied within a bound
//	expand.go   ${VAR} in values, after the syntax was read, so that a value cannot add syntax
//	decode.go   the tree into the structs of file.go; unknown keys and wrong kinds
//	the rest    each struct checks its own fields and returns the resolved value
//	settings.go the structs into the list of settings: where each comes from, what is in effect without secrets,
//	            and what a reload cannot change
//
// A check and the value that it checks are one step, resolve, and not a Validate
// beside it: what was parsed is used, nothing is parsed twice, and no value can
// be used that was not checked. Every step adds to one list of problems, so all
// mistakes are reported at once.
//
// Messages quote values as they stand in the file, before ${VAR} was expanded,
// and never the value of a key or a header.
package config
