//go:build !testunit

package llm

// taggedUnits are units of a build tag.
var taggedUnits [0]Unit
