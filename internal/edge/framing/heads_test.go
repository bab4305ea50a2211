package framing

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/growth"
)

// body is JSON on several lines, of 77 bytes, which looks like a head that must be refused.
const body = "{\n \"a\": [\n1]\n}\n\nGET / HTTP/1.1\nContent-Length: 1\nTransfer-Encoding: chunked\n\n"

// good are connections that pass. The names of bad ones begin with what is refused.
var good = map[string]string{
	"get":               "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"pipelined":         "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n",
	"body":              "POST / HTTP/1.1\r\nHost: a\r\ncOnTENT-lenGTH: \t 77 \r\n\r\n" + body + "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"old":               "POST / HTTP/1.0\r\nContent-Length: 77\r\nConnection: keep-alive\r\n\r\n" + body + "GET / HTTP/1.0\r\n\r\n",
	"length twice":      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\na\nbGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"length 0":          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"expect":            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 77\r\nExpect: 100-continue\r\n\r\n" + body,
	"chunked":           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\n0\r\n\r\n",
	"similar names":     "GET / HTTP/1.1\r\nHost: a\r\nContent-Length-X: a\r\nContent: a\r\nT: a\r\nTransfer-Encodings: a\r\nX: Content-Length: 3\r\n\r\n",
	"empty line before": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
}

// bad are connections whose last head must be refused at the mark.
var bad = map[string]string{
	"request line":        "^GET / HTTP/1.1\nHost: a\r\n\r\n",
	"all lines":           "^GET / HTTP/1.1\nHost: a\n\n",
	"one line":            "GET / HTTP/1.1\r\n^Host: a\nX: b\r\n\r\n",
	"last line":           "GET / HTTP/1.1\r\nHost: a\r\n^\n",
	"hidden length":       "POST / HTTP/1.1\r\nHost: a\r\n^X: a\nContent-Length: 30\r\n\r\n",
	"first byte":          "^\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"second request":      "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n^Host: a\n\r\n",
	"after a body":        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 77\r\n\r\n" + body + "^GET / HTTP/1.1\nHost: a\r\n\r\n",
	"after length 0":      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n^GET / HTTP/1.1\nHost: a\r\n\r\n",
	"after a CR":          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1^\r\r\nPOST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
	"empty line before":   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1\r\n^\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"length and coding":   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n^Transfer-Encoding: chunked\r\n\r\n",
	"coding and length":   "POST / HTTP/1.1\r\nHost: a\r\nTRANSFER-encoding: chunked\r\n^Content-Length: 3\r\n\r\n",
	"coding and length 0": "POST / HTTP/1.1\r\nHost: a\r\nTRANSFER-encoding:chunked\r\n^Content-Length:0\r\n\r\n",
	"two lengths":         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n^Content-Length: 4\r\n\r\n",
	"no length":           "POST / HTTP/1.1\r\nHost: a\r\n^Content-Length:\r\n 3\r\n\r\n",
	"signed length":       "POST / HTTP/1.1\r\nHost: a\r\n^Content-Length: +3\r\n\r\n",
	"long length":         "POST / HTTP/1.1\r\nHost: a\r\n^Content-Length: 9223372036854775808\r\n\r\n",
	"continued length":    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n^\t3\r\n\r\n",
	"continuation":        "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n^ b\r\n\r\n",
	"old coding":          "POST / HTTP/1.0\r\nConnection: keep-alive\r\n^Transfer-Encoding: chunked\r\n\r\n",
	"preface":             "^PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}

// checkAll checks a connection whose bytes arrive in the given pieces. It returns the
// number of bytes that pass.
func checkAll(pieces ...string) (passed int) {
	var h heads
	for _, piece := range pieces {
		n := h.check([]byte(piece))
		if passed += n; n < len(piece) {
			return passed
		}
	}
	return passed
}

func TestGoodHeads(t *testing.T) {
	for name, text := range good {
		if got := checkAll(strings.Split(text, "")...); got != len(text) {
			t.Errorf("%s: byte by byte: %q is refused", name, text[got:])
		}
		for i := range len(text) + 1 {
			if got := checkAll(text[:i], text[i:]); got != len(text) {
				t.Errorf("%s: in two parts at %d: %q is refused", name, i, text[got:])
			}
		}
	}
}

// TestBadHeads checks that a line is refused once its end is there. The part of the line
// that was read before it has passed, which makes no difference to net/http.
func TestBadHeads(t *testing.T) {
	for name, marked := range bad {
		at := strings.Index(marked, "^")
		text := marked[:at] + marked[at+1:]
		end := at + strings.Index(text[at:], "\n") // its last byte decides
		if got := checkAll(strings.Split(text, "")...); got != end {
			t.Errorf("%s: byte by byte: %q passes, want %q", name, text[:got], text[:end])
		}
		for i := range len(text) + 1 {
			want := at
			if i > at && i <= end {
				want = i
			}
			if got := checkAll(text[:i], text[i:]); got != want {
				t.Errorf("%s: in two parts at %d: %q passes, want %q", name, i, text[:got], text[:want])
			}
		}
	}
}

func TestLargeBody(t *testing.T) {
	var h heads
	head := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 104857600\r\n\r\n"
	piece := bytes.Repeat([]byte("\n"), 1<<20)
	if n := h.check([]byte(head)); n != len(head) {
		t.Fatal(n)
	}
	for range 100 {
		if n := h.check(piece); n != len(piece) {
			t.Fatal(n)
		}
	}
	if n := h.check(piece); n != 0 {
		t.Errorf("%d bytes pass after the body", n)
	}
}

func TestPreface(t *testing.T) {
	h := heads{http2: true}
	for _, piece := range []string{"PRI * HTTP/2.0", "\r\n\r\nSM\r\n\r\n", "\n\n\nwhatever"} {
		if n := h.check([]byte(piece)); n != len(piece) {
			t.Errorf("%d bytes of %q pass", n, piece)
		}
	}
}

var (
	bareLF     = regexp.MustCompile(`(^|[^\r])\n`)
	folded     = regexp.MustCompile(`\r\n[ \t]`)
	hasLength  = regexp.MustCompile(`(?i)\r\ncontent-length:`)
	hasCoding  = regexp.MustCompile(`(?i)\r\ntransfer-encoding:`)
	oldVersion = regexp.MustCompile(`^[^\r\n]*HTTP/1\.0\r\n`)
)

// reference divides a connection into requests with net/http's own reader, and looks at
// each head as a whole. It returns where the first head that must be refused begins, or
// where net/http stops reading requests, and which of them it was.
func reference(text string) (at int, refuse bool) {
	for method := ""; at < len(text); {
		if method == http.MethodPost { // as http.Server does
			lines := text[at:min(at+4, len(text))]
			skip := len(lines) - len(strings.TrimLeft(lines, "\r\n"))
			if strings.ReplaceAll(lines[:skip], "\r\n", "") != "" {
				return at, strings.Contains(strings.TrimPrefix(text[at:], "\r\n"), "\n")
			}
			at += skip
		}
		src := strings.NewReader(text[at:])
		in := bufio.NewReader(src)
		req, err := http.ReadRequest(in)
		if err != nil {
			return at, false
		}
		head := text[at : len(text)-src.Len()-in.Buffered()]
		coding := hasCoding.MatchString(head)
		if bareLF.MatchString(head) || folded.MatchString(head) || coding && (hasLength.MatchString(head) || oldVersion.MatchString(head)) || req.Method+req.RequestURI+req.Proto == "PRI*HTTP/2.0" {
			return at, true
		}
		if coding || req.ProtoMajor != 1 {
			return at, false
		}
		n, _ := io.CopyN(io.Discard, strings.NewReader(text[at+len(head):]), req.ContentLength)
		at += len(head) + int(n)
		method = req.Method
	}
	return len(text), false
}

// FuzzHeads compares heads with reference, and whole connections with divided ones.
func FuzzHeads(f *testing.F) {
	for _, text := range good {
		f.Add(text, uint16(7))
	}
	for _, text := range bad {
		f.Add(strings.Replace(text, "^", "", 1), uint16(20))
	}
	f.Fuzz(func(t *testing.T, text string, cut uint16) {
		whole := checkAll(text)
		at, refuse := reference(text)
		switch {
		case refuse && whole == len(text):
			t.Errorf("%q passes, want a refusal of %q", text, text[at:])
		case whole < at:
			t.Errorf("%q is refused at %q, and net/http reads %q", text, text[whole:], text[:at])
		}
		i := min(int(cut), len(text))
		if parts := checkAll(text[:i], text[i:]); (parts < len(text)) != (whole < len(text)) {
			t.Errorf("%q: %d bytes pass, and %d if divided at %d", text, whole, parts, i)
		}
	})
}

// typical is the head of an SDK's request.
const typical = "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway.example.com:4000\r\nAccept: application/json\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n" +
	"User-Agent: OpenAI/Python 1.99.1\r\nAuthorization: Bearer sk-0123456789012345678901234567890123456789\r\nContent-Type: application/json\r\nX-Stainless-Lang: python\r\n" +
	"X-Stainless-Runtime-Version: 3.12.3\r\nContent-Length: 1024\r\nX-Stainless-Read-Timeout: 600\r\n\r\n"

func BenchmarkHeads(b *testing.B) {
	text := []byte(typical + strings.Repeat("x\n", 512))
	var h heads
	b.ReportAllocs()
	for b.Loop() {
		if n := h.check(text); n != len(text) {
			b.Fatal(n)
		}
	}
}

// TestWaitingHeads checks 1 MiB of each input that a connection waits in the middle of, however it arrives.
func TestWaitingHeads(t *testing.T) {
	for name, text := range map[string]struct{ before, piece string }{
		"a line":      {"", strings.Repeat("x", growth.PieceSize)},
		"a header":    {"GET / HTTP/1.1\r\nX: ", strings.Repeat("x", growth.PieceSize)},
		"headers":     {"GET / HTTP/1.1\r\n", "X: " + strings.Repeat("x", growth.PieceSize-5) + "\r\n"},
		"empty lines": {"", strings.Repeat("\r\n", growth.PieceSize/2)},
		"a body":      {"POST / HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n", strings.Repeat("\n", growth.PieceSize)},
		"chunks":      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", strings.Repeat("\n", growth.PieceSize)},
		"requests":    {"", "GET / HTTP/1.1\r\nHost: abcdef\r\n\r\n"},
	} {
		for _, size := range []int{1, growth.PieceSize / 2, 4 << 10} {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				inputs := map[int][]byte{}
				for _, n := range []int{growth.Pieces, growth.Pieces / 8} {
					inputs[n] = []byte(text.before + strings.Repeat(text.piece, n))
				}
				growth.Linear(t, func(n int) {
					var h heads
					for p := range slices.Chunk(inputs[n], size) {
						if h.check(p) < len(p) {
							t.Fatal("it was refused")
						}
					}
				})
			})
		}
	}
}
