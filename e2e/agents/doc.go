// Package agents has coding agents do a small job in a folder, through the built
// gateway, on Chat, Responses, Messages and Gemini upstreams. A scripted model plays the upstream.
// It holds nothing but tests.
package agents
