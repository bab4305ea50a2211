package sdks

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

func nodeSDK(pkg, version string) sdk {
	return sdk{
		name:     "node-openai-" + version,
		language: "node",
		start:    func(t *testing.T) rig.Client { return rig.StartNode(t, "*.mjs", pkg, version) },
		class: func(name string) string {
			if name == "StatusError" {
				return "APIError"
			}
			return name
		},
	}
}
