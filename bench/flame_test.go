package main

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestFlame(t *testing.T) {
	root := &frame{name: "all"}
	for range 3 {
		root.add([]string{"net/http.(*conn).serve", "isogloss/request/relay.(*Relay).ServeHTTP", kernelFrame})
	}
	root.add([]string{"net/http.(*conn).serve", "runtime.<mallocgc>"})
	svg := string(flame("A & B", root))
	for _, want := range []string{`aria-label="A &amp; B"`, "isogloss/request/relay.(*Relay).ServeHTTP: 75.0 %", `class="kernel" x="0.0"`, "runtime.&lt;mallocgc&gt;: 25.0 %", `class="runtime" x="900.0"`, `width="300.0"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("the graph lacks %s:\n%s", want, svg)
		}
	}
}

func TestReadStacks(t *testing.T) {
	s := testrig.Must(readSymbols(testrig.Must(os.Executable())))
	if name := s.name(uint64(reflect.ValueOf(TestReadStacks).Pointer()) - s.base); !strings.HasSuffix(name, "bench.TestReadStacks") {
		t.Errorf("this function is %s", name)
	}
	root, err := readStacks(strings.NewReader("\tffffffff81000000\n\tffffffff81000010\n\t 10\n\n\tffffffff81000000\n"), s)
	if err != nil || root.samples != 2 || root.calls["unknown"].calls[kernelFrame].samples != 1 || root.calls[kernelFrame].samples != 1 {
		t.Errorf("%+v, %v", root, err)
	}
	for _, text := range []string{"", "\n\n", "perf: no\n"} {
		if _, err := readStacks(bytes.NewReader([]byte(text)), s); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
