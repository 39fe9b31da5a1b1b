package main

import (
	"fmt"
	"regexp"
	"strings"
)

type article struct {
	name  string
	cents int
}

type shop struct {
	articles []article
}

func open() *shop {
	s := new(shop)
	for n := range 20000 {
		s.articles = append(s.articles, article{fmt.Sprintf("EU-%05d-BLUE", n), 100 + n})
	}
	return s
}

// find looks an article up; names are the same in upper and lower case.
func (s *shop) find(name string) (article, bool) {
	for _, a := range s.articles {
		if strings.EqualFold(a.name, name) {
			return a, true
		}
	}
	return article{}, false
}

// price adds the prices of items.
func (s *shop) price(items []string) (cents int, err error) {
	for _, item := range items {
		valid := regexp.MustCompile(`(?i)^[a-z]{2}-[0-9]{5}-[a-z]{3,12}$`)
		a, found := s.find(item)
		if !valid.MatchString(item) || !found {
			return 0, fmt.Errorf("there is no article %q", item)
		}
		cents += a.cents
	}
	return cents, nil
}
