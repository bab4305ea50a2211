package sdks

import (
	"path/filepath"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

func pythonSDK(venv, version string) sdk {
	return sdk{
		name:     "python-openai-" + version,
		language: "python",
		start: func(t *testing.T) rig.Client {
			return rig.StartProcess(t, "python", filepath.Join(rig.Cache(t), "python-"+venv, "bin", "python"), "client.py", version)
		},
		class: func(name string) string {
			if name == "StatusError" {
				return "APIStatusError"
			}
			return name
		},
	}
}
