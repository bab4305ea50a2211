// Package scale tests the log of usage events on real servers that fail. See scale_test.go.
package scale
