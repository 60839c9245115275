package lab

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether a person sees what is written to a file.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
