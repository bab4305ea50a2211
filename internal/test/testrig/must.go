package testrig

// stopped carries the error of Must and NoError to Run.
type stopped struct{ err error }

// Run calls f and returns the error with which Must or NoError ended it, so that a
// scenario can be written like a test that stops at its first error. Only the goroutine
// that called Run may call them.
func Run(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stopped:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// NoError ends the function that Run called if there is an error.
func NoError(err error) {
	if err != nil {
		panic(stopped{err})
	}
}

// Must returns the value, or ends the function that Run called if there is an error.
func Must[T any](value T, err error) T {
	NoError(err)
	return value
}
