// Package record writes a captured exchange as a case of the conformance corpus. By default
// it removes all content: it masks texts, replaces media and renumbers ids. It does so in
// the same way for requests and responses, so that the case still passes. It masks
// everything that is not known to be harmless.
package record
