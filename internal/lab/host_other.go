//go:build !linux

package lab

import (
	"errors"
	"os"
)

// CongestionControl fails: labs need Linux.
func CongestionControl(string) error {
	return errors.New("labs run on Linux only; `netkvlab sim` runs here")
}

// IsTerminal is content with any device that is not a plain file or pipe.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func everybodys(string) bool { return true }
