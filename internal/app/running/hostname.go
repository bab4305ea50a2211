package running

import "os"

// Hostname returns the name of this machine.
func Hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "gateway"
	}
	return name
}
