// Package deploytest follows each way to install the gateway, from nothing to an answered
// request: the binary, `go install`, the container image, the Debian package and the Helm
// chart. It also checks release artefacts, manifests and workflow files.
package deploytest
