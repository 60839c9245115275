//go:build !linux

package lab

import "os"

// IsTerminal accepts any device that is not a plain file or pipe.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
