// Isogloss is an LLM gateway: clients use any model in their own dialect.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// version is set by `make build`.
var version = "dev"

func main() { os.Exit(run()) }

// run executes the command and returns the exit code.
func run() int {
	// net/http writes unexpected bytes of upstreams to the standard logger. They may
	// contain private data, so that logger is discarded. internal/base/observe does the
	// logging.
	log.SetOutput(io.Discard)
	if err := newRoot().ExecuteContext(untilSignal()); err != nil {
		complain(os.Stderr, err)
		return 1
	}
	return 0
}

// complain prints an error. Errors of the configuration start with FILE:LINE, like a
// compiler's, so that editors can jump to them.
func complain(w io.Writer, err error) {
	var mistakes *settings.Problems
	if errors.As(err, &mistakes) {
		fmt.Fprintln(w, mistakes)
		return
	}
	for line := range strings.Lines(plain.Lines(err.Error())) { // it may quote another program
		fmt.Fprintln(w, "isogloss:", strings.TrimSuffix(line, "\n"))
	}
}

// buildVersion returns the version set at build time, or the module version of
// `go install`.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && version == "dev" && info.Main.Version != "(devel)" && info.Main.Version != "" {
		return info.Main.Version
	}
	return version
}
