// Isogloss is an LLM gateway: it lets any client speak to any model in the
// client's own dialect.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"

	"github.com/isogloss-gateway/isogloss/internal/config"
)

// version is set by the release build.
var version = "dev"

func main() { os.Exit(run()) }

// run returns the exit code.
func run() int {
	// net/http writes an upstream's stray bytes to the standard logger, and those
	// may be anybody's words. Our own log is internal/observe's.
	log.SetOutput(io.Discard)
	if err := newRoot().ExecuteContext(untilSignal()); err != nil {
		complain(os.Stderr, err)
		return 1
	}
	return 0
}

// complain writes an error. The mistakes of a file begin with the file's name, as
// a compiler's do, so that editors find their lines.
func complain(w io.Writer, err error) {
	var mistakes *config.Problems
	if errors.As(err, &mistakes) {
		fmt.Fprintln(w, mistakes)
		return
	}
	fmt.Fprintln(w, "isogloss:", err)
}

// buildVersion is the release's, or else that of the module as `go install` got it.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && version == "dev" && info.Main.Version != "(devel)" && info.Main.Version != "" {
		return info.Main.Version
	}
	return version
}
