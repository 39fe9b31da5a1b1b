package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// shop is a web application in a separate process: a client who logs in gets a token and a cookie,
// and needs both to buy. It keeps account of each request.
type shop struct {
	mu     sync.Mutex
	secret uint64            // of its tokens
	users  map[string]string // by token
	bought []order
	calls  map[call]int
}

type (
	order struct{ user, product string }
	call  struct{ name, user string }
)

// products are those with the numbers 1 to 6, which cost as many hundreds.
var products = []string{"lamp", "desk lamp", "chair", "red chair", "table", "shelf"}

// serveShop is the role of TestMain.
func serveShop() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &shop{secret: rand.Uint64(), users: map[string]string{}, calls: map[call]int{}}
	server := &http.Server{Handler: s.routes(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	err = json.NewEncoder(os.Stdout).Encode(serveReady{ln.Addr().String()})
	_, readErr := io.Copy(io.Discard, os.Stdin)
	err = errors.Join(err, readErr, server.Close())
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// called records a request.
func (s *shop) called(name, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[call{name, user}]++
}

func (s *shop) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /products/{id}", s.browse)
	mux.HandleFunc("GET /search", s.search)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /buy", s.buy)
	mux.HandleFunc("GET /orders/{id}", s.order)
	mux.HandleFunc("GET /calls", s.counted)
	return mux
}

func (s *shop) browse(w http.ResponseWriter, r *http.Request) {
	s.called("browse", r.PathValue("id"))
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 1 || id > len(products) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"product": {"id": %d, "name": %q, "price": %d}}`, id, products[id-1], 100*id)
}

func (s *shop) search(w http.ResponseWriter, r *http.Request) {
	s.called("search", r.FormValue("q"))
	n := 0
	for _, name := range products {
		if strings.Contains(name, r.FormValue("q")) {
			n++
		}
	}
	fmt.Fprintf(w, `{"query": %q, "found": %d}`, r.FormValue("q"), n)
}

func (s *shop) login(w http.ResponseWriter, r *http.Request) {
	var who struct{ Name, Password string }
	if json.NewDecoder(r.Body).Decode(&who) != nil || who.Password != "pw-"+who.Name {
		http.Error(w, "who?", http.StatusUnauthorized)
		return
	}
	s.called("login", who.Name)
	s.mu.Lock()
	token := fmt.Sprintf("t%d", s.secret+uint64(len(s.users)))
	s.users[token] = who.Name
	s.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: "sid", Value: "s" + token, Path: "/", HttpOnly: true})
	fmt.Fprintf(w, `{"user": {"name": %q}, "token": %q}`, who.Name, token)
}

func (s *shop) buy(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	sid, err := r.Cookie("sid")
	s.mu.Lock()
	user := s.users[token]
	s.bought = append(s.bought, order{user, r.FormValue("product")})
	id := len(s.bought)
	s.mu.Unlock()
	if err != nil || sid.Value != "s"+token || user == "" {
		http.Error(w, "who?", http.StatusForbidden)
		return
	}
	s.called("buy", user)
	w.Header().Set("Location", "/orders/"+strconv.Itoa(id))
	w.WriteHeader(http.StatusCreated)
}

func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	s.mu.Lock()
	var o order
	if err == nil && id > 0 && id <= len(s.bought) {
		o = s.bought[id-1]
	}
	s.mu.Unlock()
	if o.user == "" {
		http.NotFound(w, r)
		return
	}
	s.called("order", o.user)
	fmt.Fprintf(w, `{"user": %q, "product": %s}`, o.user, o.product)
}

// counted returns how often each step was called, and by how many users.
func (s *shop) counted(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, n := range s.calls {
		fmt.Fprintf(w, "%s\t%s\t%d\n", c.name, c.user, n)
	}
}
