"""The picture of concepts and relations."""

from itertools import combinations
from xml.etree import ElementTree

from holdfast_ingestion.graph.drawing import graph_svg, layout
from holdfast_ingestion.graph.repository import Concept, ConceptRelation

SVG = "{http://www.w3.org/2000/svg}"


def concept(name, documents=1):
    return Concept(name, name, documents, documents, ("key-phrases",))


def parsed(picture):
    named = picture.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return ElementTree.fromstring(named)


CONCEPTS = [concept("breaker", 3), concept("retry", 1), concept("backoff", 2)]
RELATIONS = [
    ConceptRelation("breaker", "limits", "retry", 2),
    ConceptRelation("retry", "uses", "backoff", 1),
    ConceptRelation("retry", "uses", "something else", 1),
]


def test_the_same_graph_gives_the_same_picture():
    assert graph_svg(CONCEPTS, RELATIONS) == graph_svg(CONCEPTS, RELATIONS)


def test_each_concept_is_a_circle_and_each_relation_between_them_a_line_with_its_words():
    picture = parsed(graph_svg(CONCEPTS, RELATIONS, title="Around breaker"))
    assert picture.get("role") == "img"
    assert picture.find(f"{SVG}title").text == "Around breaker"
    lines = [line.find(f"{SVG}title").text for line in picture.iter(f"{SVG}line")]
    assert lines == ["breaker limits retry", "retry uses backoff"]
    radii = [float(circle.get("r")) for circle in picture.iter(f"{SVG}circle")]
    assert radii[0] > radii[2] > radii[1]


def test_names_cannot_add_markup_and_long_ones_are_cut():
    hostile = concept('<script>alert("x")</script> & a very long name')
    picture = parsed(graph_svg([hostile], []))
    (text,) = picture.iter(f"{SVG}text")
    assert text.text == '<script>alert("x")</scr…'
    assert list(picture.iter("script")) == []


def test_circles_are_apart_and_inside_the_picture():
    many = [concept(str(n)) for n in range(40)]
    places = layout([each.id for each in many], [])
    assert len(set(places.values())) == 40
    assert all(100 <= x <= 860 and 30 <= y <= 570 for x, y in places.values())


def test_an_empty_graph_is_an_empty_picture():
    assert list(parsed(graph_svg([], [])).iter(f"{SVG}circle")) == []


def test_no_two_names_lie_over_each_other():
    # Two groups, each with all of its relations: their members draw each other near.
    ids = [str(number) for number in range(30)]
    groups = [ids[:15], ids[15:]]
    relations = [
        ConceptRelation(one, "joins", other, 1)
        for group in groups
        for one, other in combinations(group, 2)
    ]

    places = layout(ids, relations).values()

    near = [
        (one, other)
        for one, other in combinations(places, 2)
        if abs(one[0] - other[0]) < 120 and abs(one[1] - other[1]) < 50
    ]
    assert near == []
