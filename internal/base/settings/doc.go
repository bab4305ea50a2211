// Package settings reads settings from YAML into structs, checks them, and lists what is set. It knows no section.
//
// A setting is a field of a struct with the tag key. Further tags describe it:
//
//	default     its value if the file does not set it
//	example     shown in the reference
//	enum, minimum, maximum, pattern, maxLength, maxItems
//	            its checks; see package rule
//	form        in words, what pattern matches
//	words       the name of a list of values that the section's package does not know; see File.Words
//	required    "yes": the section must set it
//	is          "bytes": the number is a size such as 64MiB; "file": the text is a path, relative to the file's folder
//	secret      which part of its text is secret; see display
//	restart     "yes": a reload does not change it, on a section for all below it; "no" takes a field out again
//
// What tags cannot say is checked by the section's method Check, which the engine calls after it has read the section.
//
// A file goes through these steps:
//
//	yaml.go     bytes to a tree of nodes, each with its line; aliases copied within a bound
//	expand.go   ${VAR} in values, after the syntax was read, so that a value cannot add syntax
//	decode.go   the tree into the structs, with the checks; unknown keys and wrong kinds
//	list.go     the structs into the list of settings: where each comes from, what is in effect without secrets,
//	            and what a reload cannot change
//
// Every step adds to one list of problems, so that all mistakes are reported at once. Messages quote values as they
// stand in the file, before ${VAR} was expanded, and never the value of a secret.
package settings
