package limit

// Class says how much a request matters when there is not room for all.
type Class int

// The classes, the most important first.
const (
	Critical  Class = iota // has places kept for it, and goes first in every queue
	Normal                 // what a request is unless somebody says otherwise
	Sheddable              // batch work: waits shortly and is the first to be refused
)

const classes = 3

var classNames = [classes]string{"critical", "normal", "sheddable"}

// ParseClass reads a class's name.
func ParseClass(name string) (Class, bool) {
	for c, n := range classNames {
		if n == name {
			return Class(c), true
		}
	}
	return Normal, false
}

// String is the class's name.
func (c Class) String() string { return classNames[c.known()] }

// known makes a value that is no class Normal.
func (c Class) known() Class {
	if c < 0 || c >= classes {
		return Normal
	}
	return c
}
