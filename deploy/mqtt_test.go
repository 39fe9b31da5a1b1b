//go:build unix

package deploy

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	paho "github.com/eclipse/paho.golang/paho"
	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// TestPaho publishes with Paho's clients for Go, of MQTT 3.1.1 and 5, unchanged: every message is stored, once and in order.
func TestPaho(t *testing.T) {
	t.Parallel()
	honed, free := build(t, "./gateway/cmd/honed"), "127.0.0.1:0"
	p := start(t, honed, "--data", filepath.Join(t.TempDir(), "log"), "--listen", free, "--admin", free, "--mqtt", free, "--http", free)
	var want []string
	for client, publish := range map[string]func(qos byte, text string){
		"tcp":       older(t, "tcp", "tcp://"+p.MQTT[0]),
		"websocket": older(t, "websocket", "ws://"+p.HTTP[0]+"/mqtt"),
		"five":      newer(t, "five", p.MQTT[0]),
	} {
		for i := range 30 {
			publish(byte(i%3), fmt.Sprint(i))
			want = append(want, fmt.Sprint(client, " ", i))
		}
	}
	stored := func() (all []string) {
		for line := range strings.Lines(run(t, root, honed, "tail", "--addr", p.Listen[0])) {
			var r struct{ Client, Topic, Data string }
			if err := json.Unmarshal([]byte(line), &r); err != nil || r.Topic != "paho" {
				t.Fatalf("%s: %v", line, err)
			}
			data, err := base64.StdEncoding.DecodeString(r.Data)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r.Client+" "+string(data))
		}
		return all
	}
	await(t, "all to be stored", func() bool { return len(stored()) >= len(want) })
	if got := strings.Join(stored(), ","); got != strings.Join(want, ",") {
		t.Errorf("stored %s, want %s", got, strings.Join(want, ","))
	}
}

// older connects a client of MQTT 3.1.1.
func older(t *testing.T, client, url string) func(qos byte, text string) {
	c := mqtt.NewClient(mqtt.NewClientOptions().AddBroker(url).SetClientID(client).SetCleanSession(false).SetProtocolVersion(4))
	wait := func(token mqtt.Token) {
		t.Helper()
		arrived := token.WaitTimeout(patience)
		if err := token.Error(); err != nil || !arrived {
			t.Fatalf("%s: %v", url, err)
		}
	}
	wait(c.Connect())
	t.Cleanup(func() { c.Disconnect(0) })
	return func(qos byte, text string) { wait(c.Publish("paho", qos, false, text)) }
}

// newer connects a client of MQTT 5.
func newer(t *testing.T, client, addr string) func(qos byte, text string) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := paho.NewClient(paho.ClientConfig{Conn: nc})
	if _, err := c.Connect(t.Context(), &paho.Connect{ClientID: client, CleanStart: true, KeepAlive: 60}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Disconnect(&paho.Disconnect{}) })
	return func(qos byte, text string) {
		_, err := c.Publish(t.Context(), &paho.Publish{QoS: qos, Topic: "paho", Payload: []byte(text), Properties: &paho.PublishProperties{ContentType: "text/plain"}})
		if err != nil {
			t.Fatalf("QoS %d: %v", qos, err)
		}
	}
}
