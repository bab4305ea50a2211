// Package agents has coding agents do a small job in a folder, through the built
// gateway, on upstreams of all four dialects. A scripted model plays the upstream.
// It holds nothing but tests.
package agents
