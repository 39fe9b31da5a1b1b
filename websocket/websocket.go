// Package websocket reads and writes WebSockets (RFC 6455), with compression that keeps no
// memory per connection (RFC 7692).
package websocket
