package conform

import (
	"fmt"
	"slices"
)

// problemList collects what a strict reader rejects.
type problemList []string

func (c *problemList) add(format string, args ...any) { *c = append(*c, fmt.Sprintf(format, args...)) }

// addIf adds a problem if wrong holds.
func (c *problemList) addIf(wrong bool, format string, args ...any) {
	if wrong {
		c.add(format, args...)
	}
}

// unknown adds a problem for each member that the vendor does not define.
func (c *problemList) unknown(o value, known []string, at string) {
	for _, name := range o.names() {
		c.addIf(!slices.Contains(known, name), "unknown member %s%s", at, name)
	}
}

// openRequest parses the body of a request and checks its members and its credential.
func openRequest(body []byte, known []string, authorized bool) (*Received, value) {
	r := &Received{}
	o, err := parse(body)
	r.Problems.addIf(err != nil || !o.isObject(), "the body is no JSON object: %v", err)
	r.Problems.unknown(o, known, "")
	r.Problems.addIf(!authorized, "no credential")
	return r, o
}

// openResponse parses the body of a response.
func openResponse(body []byte) (*Reading, value) {
	r := &Reading{}
	o, err := parse(body)
	r.Problems.addIf(err != nil || !o.isObject(), "the body is no JSON object: %v", err)
	return r, o
}
