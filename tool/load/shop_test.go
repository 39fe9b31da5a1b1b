package load

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite"
)

// shop is a web application with a database, in a separate process: a client who logs in gets a
// token and a cookie, and needs both to buy. The database has a row for each request.
type shop struct{ db *sql.DB }

const shopSchema = `
create table product (id integer primary key, name text, price integer);
create index product_name on product (name);
create table login (token text primary key, user text);
create table bought (id integer primary key, user text, product integer);
create table call (name text, user text);`

// serveShop is the role of TestMain.
func serveShop() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s, err := openShop()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.routes(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	err = json.NewEncoder(os.Stdout).Encode(serveReady{ln.Addr().String()})
	_, readErr := io.Copy(io.Discard, os.Stdin)
	err = errors.Join(err, readErr, server.Close())
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return errors.Join(err, s.db.Close())
}

func openShop() (*shop, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection would have its own database
	s := &shop{db: db}
	if _, err := db.Exec(shopSchema); err != nil {
		return nil, err
	}
	for i, name := range []string{"lamp", "desk lamp", "chair", "red chair", "table", "shelf"} {
		if _, err := db.Exec("insert into product values (?, ?, ?)", i+1, name, 100*(i+1)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// called records a request in the database.
func (s *shop) called(name, user string) {
	if _, err := s.db.Exec("insert into call values (?, ?)", name, user); err != nil {
		panic(err)
	}
}

func (s *shop) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /products/{id}", s.browse)
	mux.HandleFunc("GET /search", s.search)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /buy", s.buy)
	mux.HandleFunc("GET /orders/{id}", s.order)
	mux.HandleFunc("GET /old", func(w http.ResponseWriter, r *http.Request) {
		s.called("old", "")
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes"})
		http.Redirect(w, r, "/products/1", http.StatusFound)
	})
	mux.HandleFunc("GET /calls", s.counted)
	return mux
}

func (s *shop) browse(w http.ResponseWriter, r *http.Request) {
	s.called("browse", r.PathValue("id"))
	var name string
	var price int
	if s.db.QueryRow("select name, price from product where id = ?", r.PathValue("id")).Scan(&name, &price) != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"product": {"id": %s, "name": %q, "price": %d}}`, r.PathValue("id"), name, price)
}

func (s *shop) search(w http.ResponseWriter, r *http.Request) {
	s.called("search", r.FormValue("q"))
	var n int
	if err := s.db.QueryRow("select count(*) from product where name like ?", "%"+r.FormValue("q")+"%").Scan(&n); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
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
	var id int64
	result, err := s.db.Exec("insert into login values ('t' || abs(random()), ?)", who.Name)
	if err == nil {
		id, err = result.LastInsertId()
	}
	var token string
	if err == nil {
		err = s.db.QueryRow("select token from login where rowid = ?", id).Scan(&token)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "sid", Value: "s" + token, Path: "/", HttpOnly: true})
	fmt.Fprintf(w, `{"user": {"name": %q}, "token": %q}`, who.Name, token)
}

func (s *shop) buy(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	sid, err := r.Cookie("sid")
	var user string
	if err != nil || sid.Value != "s"+token || s.db.QueryRow("select user from login where token = ?", token).Scan(&user) != nil {
		http.Error(w, "who?", http.StatusForbidden)
		return
	}
	s.called("buy", user)
	result, err := s.db.Exec("insert into bought (user, product) values (?, ?)", user, r.FormValue("product"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	id, _ := result.LastInsertId() // SQLite always has an id
	w.Header().Set("Location", "/orders/"+strconv.FormatInt(id, 10))
	w.WriteHeader(http.StatusCreated)
}

func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	var user string
	var product int
	if s.db.QueryRow("select user, product from bought where id = ?", r.PathValue("id")).Scan(&user, &product) != nil {
		http.NotFound(w, r)
		return
	}
	s.called("order", user)
	fmt.Fprintf(w, `{"user": %q, "product": %d}`, user, product)
}

// counted returns how often each step was called, and by how many users.
func (s *shop) counted(w http.ResponseWriter, _ *http.Request) {
	rows, err := s.db.Query("select name, user, count(*) from call group by name, user")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer rows.Close()
	out := bufio.NewWriter(w)
	defer out.Flush()
	for rows.Next() {
		var name, user string
		var n int64
		if err := rows.Scan(&name, &user, &n); err != nil {
			return
		}
		fmt.Fprintf(out, "%s\t%s\t%d\n", name, user, n)
	}
}
