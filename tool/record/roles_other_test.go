//go:build !linux

package record

import "context"

func platformRoles() map[string]func(context.Context, string) error { return nil }
