// Package config lists the sections of the configuration file, and checks what they have to do with each other.
//
// A section is a struct in the package that uses it, read by internal/base/settings and used as it is. Here are the root
// and the sections that only the program as a whole uses: admin, shutdown, store and usage. Providers, models, gates and
// identity are written in structs of their own (file_*.go), because what is used is built from several settings and from
// a preset: a URL, a credential, the order of targets. Their method resolve builds it, and what was written is dropped
// when it has been listed.
//
// The package is not a part of app, because packages below app use it.
package config
