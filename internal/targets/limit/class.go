package limit

// Class is the priority of a request under overload.
type Class int

// The classes, the most important first.
const (
	Critical  Class = iota // has reserved slots and goes first in every queue
	Normal                 // the default
	Sheddable              // batch work: waits briefly and is refused first
)

const classes = 3

var classNames = [classes]string{"critical", "normal", "sheddable"}

// ParseClass returns the class with a name.
func ParseClass(name string) (Class, bool) {
	for c, n := range classNames {
		if n == name {
			return Class(c), true
		}
	}
	return Normal, false
}

// String returns the name of the class.
func (c Class) String() string { return classNames[c.known()] }

// known returns the class, or Normal for a value that is none.
func (c Class) known() Class {
	if c < 0 || c >= classes {
		return Normal
	}
	return c
}
