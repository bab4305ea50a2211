package e2e

import (
	"path/filepath"
	"testing"
)

func pythonSDK(venv, version string) sdk {
	return sdk{
		name:     "python-openai-" + version,
		language: "python",
		start: func(t *testing.T) client {
			return startProcess(t, "python", filepath.Join(cacheDir(t), "python-"+venv, "bin", "python"), "client.py", version)
		},
		class: func(name string) string {
			if name == "StatusError" {
				return "APIStatusError"
			}
			return name
		},
	}
}
