package anthropic

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

// VersionHeader is the header that names the version of the protocol.
const VersionHeader = "anthropic-version"

// Version is what one version of the protocol accepts in a request.
type Version struct {
	Name              string
	Sampling          bool // temperature, top_p and top_k
	AssistantDocument bool // document blocks directly in assistant messages
	UserTextCitations bool // citations on text that the user sends
	Threads           bool // its SDKs may use conversations that the vendor stores
	BetaQuery         bool // its SDKs may send ?beta=true
}

// Versions lists the known versions, the default first.
func Versions() []Version {
	return []Version{
		{Name: "2023-06-01", Sampling: true, AssistantDocument: true, UserTextCitations: true, BetaQuery: true},
		{Name: "2026-10-21", Threads: true, BetaQuery: true},
	}
}

// versionNamed returns the version with that name; "" is the default version.
func versionNamed(name string) (Version, *llm.Error) {
	known := Versions()
	names := make([]string, 0, len(known))
	for _, v := range known {
		if name == "" || v.Name == name {
			return v, nil
		}
		names = append(names, v.Name)
	}
	return Version{}, &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_version", Param: VersionHeader,
		Message: VersionHeader + ": " + name + " is not a version that can be translated; send one of " + strings.Join(names, ", ")}
}

// versionFor returns the version for a request: the target's own, or the first
// that accepts sampling settings if the request has some that the model honours.
func versionFor(name string, sampled bool) (Version, *llm.Error) {
	v, err := versionNamed(name)
	if err != nil || v.Sampling || !sampled {
		return v, err
	}
	for _, other := range Versions() {
		if other.Sampling {
			return other, nil
		}
	}
	return v, nil
}

// CheckVersion refuses a version that is not known.
func CheckVersion(name string) *llm.Error {
	_, err := versionNamed(name)
	return err
}
