// Package e2e runs the vendors' own SDKs, unmodified but for their base URL, against
// the built gateway with a scripted upstream behind it. See README.md.
package e2e
