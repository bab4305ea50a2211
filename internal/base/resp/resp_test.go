package resp

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/test/growth"
)

// TestReplies reads replies in pieces of every size.
func TestReplies(t *testing.T) {
	deep := strings.Repeat("*1\r\n", maxDepth)
	for text, want := range map[string]int{
		"+OK\r\n": 1, "-ERR x\r\n": 1, ":-5\r\n": 1, "$3\r\na\r\n\r\n": 1, "$0\r\n\r\n": 1, "$-1\r\n": 1, "*-1\r\n": 1, "_\r\n": 1, "#t\r\n": 1, ",1.5\r\n": 1, "(123\r\n": 1,
		"*2\r\n:1\r\n*0\r\n": 1, "%1\r\n+a\r\n*2\r\n:1\r\n$1\r\nx\r\n+b\r\n": 2, deep + ":1\r\n": 1, "*2\r\n$-1\r\n$1\r\na\r\n:1\r\n": 2,
		"$-2\r\n": -1, "*-2\r\n": -1, "%-1\r\n": -1, "$9223372036854775807\r\n": -1, "$536870912\r\n": -1, "*100000\r\n": -1, "$?\r\n": -1, "*?\r\n": -1, "$+5\r\n": -1, ":x\r\n": -1,
		deep + "*1\r\n:1\r\n": -1, ">2\r\n+subscribe\r\n+x\r\n": -1, "|1\r\n+a\r\n+b\r\n": -1, "_x\r\n": -1, "#x\r\n": -1, "!-1\r\n": -1, "HTTP/1.1 200 OK\r\n": -1, "\r\n": -1, "+OK\n": -1,
		"+" + strings.Repeat("a", maxLine) + "\r\n": -1, "*3\r\n" + strings.Repeat("$2000000\r\n"+strings.Repeat("x", 2000000)+"\r\n", 3): -1,
	} {
		for _, piece := range []int{1, 2, 3, 7, 1 << 20} {
			if piece < 100 && len(text) > 1<<20 {
				continue
			}
			s, n := scanner{max: MaxReply}, 0
			for rest := []byte(text); len(rest) > 0 && n >= 0; {
				part := rest[:min(piece, len(rest))]
				rest = rest[len(part):]
				if s.scan(part, func() error { n++; return nil }) != nil {
					n = -1
				}
			}
			if n != want {
				t.Errorf("%.40q in pieces of %d: %d replies, want %d", text, piece, n, want)
			}
		}
	}
}

// TestWaitingReplies scans 1 MiB of each reply that the scanner waits in the middle of, however it arrives.
func TestWaitingReplies(t *testing.T) {
	for name, reply := range map[string]func(n int) string{
		"a string": func(n int) string { return fmt.Sprintf("$%d\r\n%s", 2<<20, strings.Repeat("\n", n*growth.PieceSize)) },
		"strings of a list": func(n int) string {
			return fmt.Sprintf("*%d\r\n%s", maxElements, strings.Repeat("$24\r\n"+strings.Repeat("x", 24)+"\r\n", n))
		},
		"lists of a list": func(n int) string { return fmt.Sprintf("*%d\r\n%s", n, strings.Repeat("*1\r\n:1\r\n", n)) },
		"lines":           func(n int) string { return strings.Repeat("+"+strings.Repeat("x", growth.PieceSize-3)+"\r\n", n) },
	} {
		for _, size := range []int{1, growth.PieceSize / 2, 4 << 10} {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				inputs := map[int][]byte{growth.Pieces: []byte(reply(growth.Pieces)), growth.Pieces / 8: []byte(reply(growth.Pieces / 8))}
				growth.Linear(t, func(n int) {
					s := scanner{max: MaxReply}
					for p := range slices.Chunk(inputs[n], size) {
						if err := s.scan(p, func() error { return nil }); err != nil {
							t.Fatal(err)
						}
					}
				})
			})
		}
	}
}

// TestHostileServer connects the client library to servers whose replies end a process
// without the guard.
func TestHostileServer(t *testing.T) {
	for name, bad := range map[string]string{
		"negative": "$-2\r\n", "huge": "$4611686018427387904\r\n", "array": "*-9\r\n", "map": "%-1\r\n", "unasked": "+OK\r\n+OK\r\n+OK\r\n", "push": ">3\r\n+subscribe\r\n+x\r\n:1\r\n",
		"deep": strings.Repeat("*1\r\n", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go serve(l, bad)
			o := rueidis.ClientOption{InitAddress: []string{l.Addr().String()}, DisableCache: true, DisableRetry: true, AlwaysPipelining: true, ForceSingleClient: true, AlwaysRESP2: true}
			Guard(&o)
			c, err := rueidis.NewClient(o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			for range 3 {
				_ = c.Do(ctx, c.B().Get().Key("x").Build()).Error() // what counts is that the process lives
			}
			if name != "unasked" && c.Do(ctx, c.B().Get().Key("x").Build()).Error() == nil {
				t.Error("the reply is accepted")
			}
		})
	}
}

// serve replies to commands: OK, and to GET what it is given.
func serve(l net.Listener, bad string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for in := bufio.NewScanner(c); in.Scan(); {
				switch line := in.Text(); {
				case line == "GET":
					_, err = c.Write([]byte(bad))
				case strings.HasPrefix(line, "*"):
				case strings.HasPrefix(line, "$"):
				case line == "CLIENT", line == "HELLO", line == "PING":
					_, err = c.Write([]byte("+OK\r\n"))
				}
				if err != nil {
					return
				}
			}
		}()
	}
}

// FuzzReplies scans any bytes: how many replies they are does not depend on how they arrive.
func FuzzReplies(f *testing.F) {
	for _, text := range []string{"+OK\r\n", "$3\r\na\r\n\r\n", "*2\r\n:1\r\n*0\r\n", "%1\r\n+a\r\n:1\r\n", "$-2\r\n", "*100000\r\n", "$9223372036854775807\r\n", "_\r\n#t\r\n,1.5\r\n(123\r\n", strings.Repeat("*1\r\n", maxDepth+1)} {
		f.Add([]byte(text), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		scan := func(size int) (n int, failed bool) {
			s := scanner{max: MaxReply}
			for p := range slices.Chunk(text, size) {
				if s.scan(p, func() error { n++; return nil }) != nil {
					return n, true
				}
			}
			return n, false
		}
		n, failed := scan(len(text) + 1)
		if n2, failed2 := scan(1 + max(size, -size, 0)%64); n2 != n || failed2 != failed {
			t.Errorf("%d replies, %t; in pieces %d, %t", n, failed, n2, failed2)
		}
		if n > len(text)/3 {
			t.Errorf("%d replies in %d bytes", n, len(text))
		}
	})
}
