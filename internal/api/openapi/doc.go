// Package openapi declares HTTP operations by the Go types of their inputs and results. It reads and
// validates inputs, writes errors in the format of RFC 9457, and generates the OpenAPI document.
package openapi
