package settings

import (
	"net"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// MaxFile is the maximum size of a file, far above a table of 100,000 models.
const MaxFile = 64 << 20

// File is a file of settings while it is read.
type File struct {
	// Env looks up environment variables like os.LookupEnv.
	Env func(string) (string, bool)
	// Words are the valid values of fields with the tag words, by its text: values that the section's package does not know.
	Words map[string][]string

	name     string
	problems Problems
	root     *Node
	types    map[reflect.Type]*section
}

// NewFile returns a file. Its name is used in messages, and relative paths are relative to its folder. Without a name
// there is no file.
func NewFile(name string, env func(string) (string, bool)) *File {
	return &File{name: name, Env: env, problems: Problems{file: name}, types: map[reflect.Type]*section{}}
}

// Err returns all problems, sorted, as a *Problems, or nil if there is none.
func (f *File) Err() error { return f.problems.err() }

// Dir returns the folder of the file.
func (f *File) Dir() string {
	if f.name == "" {
		return ""
	}
	return filepath.Dir(f.name)
}

// path returns a path as it is from the folder of the file.
func (f *File) path(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(f.Dir(), path)
}

// Decode sets the settings of the struct that to points to from a tree, and checks them.
func (f *File) Decode(root *Node, to any) {
	f.root = root
	f.value(root, reflect.ValueOf(to).Elem(), nil)
}

// At is the place of a section in a file. Sections get it to check themselves.
type At struct {
	node *Node
	file *File
}

// On reports whether the file has the section.
func (a *At) On() bool { return a.node != nil && a.node.Kind != Null }

// Has reports whether the file sets the key.
func (a *At) Has(key string) bool { return a.node.Child(key) != nil }

// Configured reports whether the file has a section of this name at its top.
func (a *At) Configured(section string) bool { return a.file.root.Child(section) != nil }

// Below returns the place of a section in the section.
func (a *At) Below(key string) *At { return &At{a.node.Child(key), a.file} }

// Name returns the name under which the section stands in a table.
func (a *At) Name() string { return a.node.Key }

// Node returns the node of a key, of the section for an empty key.
func (a *At) Node(key string) *Node {
	if key == "" {
		return a.node
	}
	return a.node.Child(key)
}

// Written returns the text of a key's value in the file, for messages, or otherwise if the file does not set it.
func (a *At) Written(key, otherwise string) string {
	if c := a.node.Child(key); c != nil {
		return c.Written
	}
	return otherwise
}

// Path returns a path as it is from the folder of the file.
func (a *At) Path(path string) string { return a.file.path(path) }

// Env returns an environment variable.
func (a *At) Env(name string) (string, bool) { return a.file.Env(name) }

// ReferencedFile returns the file of a value that is written as ${FILE:path} and nothing else, or "".
func (a *At) ReferencedFile(key string) string {
	if path := a.node.Child(key).referencedFile(); path != "" {
		return a.file.path(path)
	}
	return ""
}

// Wrong records a problem with a key of the section, or of one in it, even if the file does not set it. An empty key is
// the section itself.
func (a *At) Wrong(key, format string, args ...any) {
	n := a.node
	for part, rest, more := strings.Cut(key, "."); ; part, rest, more = strings.Cut(rest, ".") {
		c := n.Child(part)
		if part == "" {
			c = n
		}
		switch {
		case c == nil:
			a.file.problems.addMissing(n, join(part, rest), format, args...)
			return
		case !more:
			a.file.problems.add(c, format, args...)
			return
		}
		n = c
	}
}

// Together records a problem if only one of two settings has a value.
func (a *At) Together(key, value, otherKey, other string) {
	if (value == "") != (other == "") {
		a.Wrong(key, "and %s belong together; write both files or neither", otherKey)
	}
}

// Address checks a host:port and returns the host.
func (a *At) Address(key, value string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		a.Wrong(key, "%q is not an address; write host:port, such as 127.0.0.1:8080", a.Written(key, value))
		return "", false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		a.Wrong(key, "%q has no port between 0 and 65535; write host:port, such as 127.0.0.1:8080", a.Written(key, value))
		return "", false
	}
	return host, true
}

// EachName records what wrong says of the names in a table, and nothing for "".
func (a *At) EachName(key string, wrong func(name string) string) {
	if table := a.node.Child(key); table != nil {
		for _, n := range table.Children {
			if text := wrong(n.Key); text != "" {
				a.file.problems.add(n, "%s", text)
			}
		}
	}
}

// WrongItem records a problem with an item of a list or a mapping.
func (a *At) WrongItem(key string, i int, format string, args ...any) {
	a.file.problems.add(a.node.Child(key).Children[i], format, args...)
}

// WrongNode records a problem with a node.
func (a *At) WrongNode(n *Node, format string, args ...any) { a.file.problems.add(n, format, args...) }
