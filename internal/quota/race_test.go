//go:build race

package quota

// slow is how much longer things may take where the race detector slows them.
const slow = 10
