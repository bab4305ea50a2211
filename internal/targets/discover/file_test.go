package discover

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "workers.json")
	a, d, _ := begin(t, Options{Sources: []Source{File(path)}, Confirm: 300 * time.Millisecond})
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one := `{"id":"a","model":"m","protocol":"openai-chat","url":"http://10.0.0.1:8000/v1"}`
	two := `{"id":"b","model":"m","protocol":"anthropic","url":"http://10.0.0.2:8000","name":"n","capacity":4,"weight":2}`

	eventually(t, "a publication without the file", func() bool { return a.count() > 0 && d.Status().Snapshot.Stale })
	write("[" + one + "]")
	whole(t, d, 1)
	write("[" + one + "," + two + "]")
	whole(t, d, 2)
	if w := d.Status().Snapshot.Workers[1]; w != (Worker{ID: "file/b", Model: "m", Protocol: "anthropic", URL: "http://10.0.0.2:8000", Name: "n", Capacity: 4, Weight: 2}) {
		t.Errorf("read %+v", w)
	}
	since := a.count()
	for _, bad := range []string{"[" + one, "", "null", "{}", `[{"id":"a","modell":"m"}]`, `[{"id":"a","id":"b"}]`} {
		write(bad)
		eventually(t, "the news that it is refused", func() bool { return d.Status().Snapshot.Stale })
		write("[" + one + "," + two + "]")
		whole(t, d, 2)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the news that it is not there", func() bool { return d.Status().Snapshot.Stale })
	a.never(t, since, 2)

	// The file is replaced by one of the same length, as an editor does.
	next := path + ".new"
	if err := os.WriteFile(next, []byte("["+one+","+two+"] "), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	whole(t, d, 2)
	write("[]")
	whole(t, d, 0) // after the guard's delay
}
